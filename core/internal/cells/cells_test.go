package cells

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func load(t *testing.T, text string) ([]Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cells.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

func TestTheFile(t *testing.T) {
	t.Parallel()
	held := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(held, []byte("postgres://third\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listed, err := load(t, `[{"name": "a", "dsn": "postgres://first", "weight": 3}, {"name": "b", "dsn": "postgres://second", "accepts_new": false},
		{"name": "home"}, {"name": "c", "dsn_file": "`+held+`"}]`)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range listed {
		names = append(names, one.Name)
	}
	if !slices.Equal(names, []string{"home", "a", "b", "c"}) {
		t.Errorf("order %v: the home cell first, the others as in the file", names)
	}
	if !listed[0].Home() || listed[1].Home() || listed[1].Share() != 3 || listed[2].Share() != 1 || listed[2].Accepts() || !listed[3].Accepts() ||
		listed[3].DSN.Reveal() != "postgres://third" {
		t.Errorf("%+v", listed)
	}
}

func TestAWrongFile(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		``:                               "JSON list",
		`{"name": "a"}`:                  "JSON list",
		`[]`:                             "1 to 64",
		`[{"name": "a"}] []`:             "after the list",
		`[{"name": "a", "wait": 1}]`:     "unknown field",
		`[{"name": "a"}, {"name": "b"}]`: "exactly one cell",
		`[{"name": "a", "dsn": "postgres://u:hunter2@h/d"}]`:                "exactly one cell",
		`[{"name": "a"}, {"name": "a", "dsn": "postgres://u:hunter2@h/d"}]`: "listed twice",
		`[{"name": ""}]`:                  "1 to 128",
		`[{"name": "a b"}]`:               "1 to 128",
		`[{"name": "a", "weight": 0}]`:    "weight",
		`[{"name": "a", "weight": 1001}]`: "weight",
		`[{"name": "a"}, {"name": "b", "dsn": "hunter2", "dsn_file": "x"}]`: "not both",
		`[{"name": "a"}, {"name": "b", "dsn_file": "/absent"}]`:             "dsn_file",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := load(t, "["+strings.Repeat(" ", maxFile)+"]"); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a large file: %v", err)
	}
}

func TestRoomiest(t *testing.T) {
	t.Parallel()
	if _, found := Roomiest(nil); found {
		t.Error("a cell out of none")
	}
	candidates := []Candidate{{Cell: 0, Weight: 1}, {Cell: 2, Weight: 3}, {Cell: 5, Weight: 2}}
	for range 600 {
		cell, found := Roomiest(candidates)
		if !found {
			t.Fatal("no cell")
		}
		for i := range candidates {
			if candidates[i].Cell == cell {
				candidates[i].Tenants++
			}
		}
	}
	for _, one := range candidates {
		if got := one.Tenants / int64(one.Weight); got < 99 || got > 101 {
			t.Errorf("%d tenants for the weight %d", one.Tenants, one.Weight)
		}
	}
}
