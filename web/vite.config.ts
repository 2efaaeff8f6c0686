import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// Built into the Python package, so that the wheel carries the page. `LEADLINE_URL` is the server that `npm run dev` asks.
const server = process.env.LEADLINE_URL ?? "http://127.0.0.1:8440";

export default defineConfig({
  plugins: [svelte()],
  base: "/",
  build: {
    outDir: "../src/leadline/server/page",
    emptyOutDir: true,
    assetsDir: "page",
    target: "es2022",
    reportCompressedSize: false,
    rolldownOptions: { checks: { pluginTimings: false } }, // a busy machine is no news
    chunkSizeWarningLimit: 2000, // the graph's layout engine, which loads with its view
  },
  // The page's own host goes on to the server: it answers pages of its own site only.
  server: { proxy: { "/api": { target: server, changeOrigin: false } } },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
