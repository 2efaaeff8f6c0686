"""What carries messages between ranks: TCP, or RoCEv2 framing with go-back-N."""
