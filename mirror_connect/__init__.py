"""mirror-connect: Kafka topics copied between clusters, from outside as Kafka Connect with MirrorMaker 2."""
