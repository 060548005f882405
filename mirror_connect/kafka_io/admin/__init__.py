"""Topics, configs, ACLs and consumer groups of a cluster: asked for and changed."""
