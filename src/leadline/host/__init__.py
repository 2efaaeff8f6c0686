"""What runs on a training host: `leadline agent`. Sources, a spool on disk, and senders."""
