"""Record batches and records out of a cluster: the fetcher of whole batches, and librdkafka's readers."""
