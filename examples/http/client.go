// A client of the answer service in Go: admits a VM, asks how much longer it will run, and ends it.
//
//	SOJOURN_URL=http://127.0.0.1:8900 SOJOURN_TOKEN=... go run client.go
//
// The columns of its request are those of the bundle that is installed with Sojourn: give those of yours.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

// Answer has the fields of all calls; those that a call does not give stay zero.
type Answer struct {
	RequestID  string    `json:"request_id"`
	State      string    `json:"state"`
	RemainingS float64   `json:"remaining_s"`
	QuantilesS []float64 `json:"quantiles_s"`
	Status     int       `json:"status"`
	Error      string    `json:"error"`
}

type fields map[string]any

var client = &http.Client{Timeout: 5 * time.Second} // keeps its connections

func post(call string, document any, answer any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return err
	}
	request, err := http.NewRequest("POST", os.Getenv("SOJOURN_URL")+call, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("SOJOURN_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", call, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}

func run() error {
	nowS := time.Now().Unix()
	if given := os.Getenv("SOJOURN_NOW_S"); given != "" {
		nowS, _ = strconv.ParseInt(given, 10, 64)
	}
	var vm Answer
	err := post("/admit", fields{"request_id": "vm-1", "now_s": nowS, "quantiles": []float64{0.9},
		"request": fields{"cpu_cores": 2, "subscription": "s4"}}, &vm)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s: %.0f s, 9 in 10 within %.0f s\n", vm.RequestID, vm.State, vm.RemainingS, vm.QuantilesS[0])

	var batch struct{ Items []Answer }
	if err := post("/remaining", fields{"items": []string{"vm-1"}, "now_s": nowS + 3600}, &batch); err != nil {
		return err
	}
	for _, each := range batch.Items {
		if each.Error != "" { // of this item alone
			return fmt.Errorf("%s: %d %s", each.RequestID, each.Status, each.Error)
		}
		fmt.Printf("%s after an hour: %.0f s\n", each.RequestID, each.RemainingS)
	}

	if err := post("/ended", fields{"request_id": "vm-1", "now_s": nowS + 3600}, &vm); err != nil {
		return err
	}
	fmt.Println(vm.RequestID, vm.State)
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
