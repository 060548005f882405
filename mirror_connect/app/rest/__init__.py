"""The REST interface of Kafka Connect: parses requests, calls the herder, renders answers. HTTP appears only here."""
