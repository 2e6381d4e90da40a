"""A bus over a broker: a store that is elsewhere, as the client sees it."""
