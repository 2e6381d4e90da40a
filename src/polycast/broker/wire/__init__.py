"""What a client and a broker say to each other: messages, frames, calls and limits."""
