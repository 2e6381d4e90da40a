package main

import "quamina.net/go/quamina"

type matcher struct{ *quamina.Quamina }

func newPeer() peer {
	made, err := quamina.New(quamina.WithMediaType("application/json"))
	if err != nil {
		panic(err)
	}
	return matcher{made}
}

func (m matcher) add(number int, rule []byte) error {
	return m.AddPattern(number, string(rule))
}

func (m matcher) match(event []byte) (int, error) {
	found, err := m.MatchesForEvent(event)
	return len(found), err
}
