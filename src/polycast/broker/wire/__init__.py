"""The protocol between clients and a broker: messages, frames, calls and TLS."""
