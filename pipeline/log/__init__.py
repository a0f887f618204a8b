"""The log: Avro on Kafka. The only package that knows either. It knows no rule of the domain."""
