"""The REST interface of Kafka Connect: parses requests, calls the herder, renders answers. Only this room knows HTTP."""
