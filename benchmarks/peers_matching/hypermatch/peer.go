package main

import (
	"encoding/json"

	"github.com/SchwarzDigits/hypermatch/v2"
)

type matcher struct {
	made *hypermatch.HyperMatch[int]
}

func newPeer() peer {
	return matcher{hypermatch.New[int]()}
}

func (m matcher) add(number int, rule []byte) error {
	var conditions hypermatch.ConditionSet
	if err := json.Unmarshal(rule, &conditions); err != nil {
		return err
	}
	return m.made.AddRule(number, conditions)
}

func (m matcher) match(event []byte) (int, error) {
	found, err := m.made.MatchJSON(event)
	return len(found), err
}
