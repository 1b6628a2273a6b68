// Best fit as a process (docs/simulator/doors.md): hosts in use first, then the least free share, binding first.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

type hello struct{ Hosts [][]float64 }

type request struct {
	Request int
	Need    []float64
	Ended   []int
}

type placement struct {
	host int
	need []float64
}

func main() {
	in := json.NewDecoder(os.Stdin)
	var pool hello
	if in.Decode(&pool) != nil {
		os.Exit(1)
	}
	free, running, placed := make([][]float64, len(pool.Hosts)), make([]int, len(pool.Hosts)), map[int]placement{}
	for host := range free {
		free[host] = append([]float64{}, pool.Hosts[host]...)
	}
	fmt.Println(`{"protocol": 1, "name": "best-fit in Go"}`)
	for {
		var asked request
		if in.Decode(&asked) != nil {
			return
		}
		for _, row := range asked.Ended {
			move(free[placed[row].host], placed[row].need, 1)
			running[placed[row].host]--
		}
		chosen := -1
		var best []float64
		for host := range free {
			if score := scored(asked.Need, free[host], pool.Hosts[host], running[host]); score != nil && less(score, best) {
				chosen, best = host, score
			}
		}
		if chosen < 0 {
			fmt.Println(`{"host": null}`)
			continue
		}
		placed[asked.Request] = placement{chosen, asked.Need}
		move(free[chosen], asked.Need, -1)
		running[chosen]++
		fmt.Printf("{\"host\": %d}\n", chosen)
	}
}

// scored gives the score of one host, lower is better; nil if the request does not fit.
func scored(need, free, capacity []float64, nRunning int) []float64 {
	score := []float64{0}
	if nRunning == 0 {
		score[0] = 1
	}
	for d := range need {
		if free[d] < need[d] {
			return nil
		}
		share := 0.0
		if capacity[d] > 0 {
			share = (free[d] - need[d]) / capacity[d]
		}
		score = append(score, share)
	}
	return score
}

func less(a, b []float64) bool {
	for d := range b {
		if a[d] != b[d] {
			return a[d] < b[d]
		}
	}
	return b == nil
}

func move(free, need []float64, sign float64) {
	for d := range free {
		free[d] += sign * need[d]
	}
}
