"""MirrorMaker 1: copies topics under their own names; positions are the offsets of a consumer group on each source."""
