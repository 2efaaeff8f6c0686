"""What flows really carried, and over which links: `NAME.flows.parquet`, beside a bundle as its `NAME.truth.json` is.

    kernel of each switch --nft counters--> FlowWatch --+
                                                        +--> FlowTruthFile --> NAME.flows.parquet --> volumes, ways
    simulated flows and their paths --------------------+

One row for each flow, switch, pair of links and span of time (`table.SCHEMA`; docs/lab/flow-truth.md). Only evals and
tests read it: no analysis may.
"""

from leadline.lab.flow_truth.table import SCHEMA, SUFFIX, FlowTruthFile, beside, read_flow_truth
from leadline.lab.flow_truth.ways import Way, volumes, ways

__all__ = ["SCHEMA", "SUFFIX", "FlowTruthFile", "Way", "beside", "read_flow_truth", "volumes", "ways"]
