"""Record batches into a cluster: idempotent, in order, fenced; and the leader's transactional writes."""
