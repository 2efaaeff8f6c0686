"""What keeps stored rows readable on a disk that fills: space for merges, a ballast, a canary, what was put aside."""
