"""The commands that ask and direct a running worker over REST: ours, or Kafka's own."""
