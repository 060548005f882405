"""`mirror-connect check`: what this product would do with a configuration of Kafka Connect or MirrorMaker 2."""
