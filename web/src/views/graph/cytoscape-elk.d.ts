// cytoscape-elk has no types of its own: an extension that adds the layout `elk`.
declare module "cytoscape-elk" {
  import type { Ext } from "cytoscape";
  const extension: Ext;
  export default extension;
}
