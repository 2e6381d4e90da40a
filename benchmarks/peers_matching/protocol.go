// What both Go contenders share: rules and events from files, then one command per line.
//
//	count K   how many rules each of the first K events matches
//	run N     the next N events: how many matches they have in all
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
)

type peer interface {
	add(number int, rule []byte) error
	match(event []byte) (int, error)
}

func lines(path string) [][]byte {
	content, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return bytes.Split(bytes.TrimSpace(content), []byte("\n"))
}

func matched(p peer, event []byte) int {
	found, err := p.match(event)
	if err != nil {
		panic(err)
	}
	return found
}

func main() {
	p := newPeer()
	rules, events := lines(os.Args[1]), lines(os.Args[2])
	began := time.Now()
	for number, rule := range rules {
		if err := p.add(number, rule); err != nil {
			panic(fmt.Sprintf("%s: %v", rule, err))
		}
	}
	fmt.Println(time.Since(began).Seconds())
	next := 0
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var what string
		var count int
		if _, err := fmt.Sscan(commands.Text(), &what, &count); err != nil {
			panic(err)
		}
		if what == "count" {
			counts := make([]string, count)
			for i := range counts {
				counts[i] = fmt.Sprint(matched(p, events[i]))
			}
			fmt.Println(strings.Join(counts, " "))
			continue
		}
		matches := 0
		for range count {
			matches += matched(p, events[next])
			if next++; next == len(events) {
				next = 0
			}
		}
		fmt.Println(matches)
	}
}
