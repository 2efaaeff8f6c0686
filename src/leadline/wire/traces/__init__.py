"""Files of profiler traces as rows of the table `operation`: what-if CSV, Kineto, Chakra."""
