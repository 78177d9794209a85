package cells

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/secret"
)

const (
	// maxCells bounds the pools of one core.
	maxCells  = 64
	maxWeight = 1000
	maxFile   = 256 << 10
)

// Config is one cell of the file that FORGEQUEUE_CELLS names.
type Config struct {
	// Name is the cell's for ever: it is in the directory.
	Name string `json:"name"`
	// DSN is its connection string, DSNFile the file that holds it. The home cell has neither: it is the
	// database of DATABASE_URL.
	DSN     secret.Text `json:"dsn"`
	DSNFile string      `json:"dsn_file"`
	// Weight is how much room the cell has, relative to the others. 1 if absent.
	Weight *int `json:"weight"`
	// AcceptsNew says whether new tenants may be placed in the cell. True if absent.
	AcceptsNew *bool `json:"accepts_new"`
}

// Home says whether it is the home cell.
func (c Config) Home() bool { return c.DSN == "" && c.DSNFile == "" }

// Key is how the directory names the cell: "" for the home cell.
func (c Config) Key() string {
	if c.Home() {
		return ""
	}
	return c.Name
}

// Share is the weight, 1 if absent.
func (c Config) Share() int {
	if c.Weight == nil {
		return 1
	}
	return *c.Weight
}

// Accepts says whether new tenants may be placed there.
func (c Config) Accepts() bool { return c.AcceptsNew == nil || *c.AcceptsNew }

// Load reads the file. The home cell is the first of the result, the others are in the file's order,
// with what their DSNFile holds in DSN. The error has every problem, and no connection string.
func Load(path string) ([]Config, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: is larger than %d bytes", path, maxFile)
	}
	return parse(text)
}

func parse(text []byte) ([]Config, error) {
	var listed []Config
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&listed); err != nil {
		return nil, fmt.Errorf(`must be a JSON list such as [{"name": "first"}, {"name": "second", "dsn_file": "/run/secrets/second"}]: %w`, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the list")
	}
	if len(listed) == 0 || len(listed) > maxCells {
		return nil, fmt.Errorf("must list 1 to %d cells", maxCells)
	}
	var problems []error
	names, homes := map[string]bool{}, 0
	for i := range listed {
		problems = append(problems, check(&listed[i]))
		if names[listed[i].Name] {
			problems = append(problems, fmt.Errorf("cell %q is listed twice", listed[i].Name))
		}
		names[listed[i].Name] = true
		if listed[i].Home() {
			homes++
			listed[0], listed[i] = listed[i], listed[0]
			if i > 1 { // the others keep their order
				moved := listed[i]
				copy(listed[2:i+1], listed[1:i])
				listed[1] = moved
			}
		}
	}
	if homes != 1 {
		problems = append(problems, errors.New("exactly one cell must have neither dsn nor dsn_file: the home cell, which is the database of DATABASE_URL"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return listed, nil
}

// check checks one cell, and reads the file of its connection string.
func check(c *Config) error {
	if !api.ValidName(c.Name) {
		return fmt.Errorf("name %q: must be 1 to 128 letters, digits, '.', '_', ':' or '-'", c.Name)
	}
	var problems []error
	if weight := c.Share(); weight < 1 || weight > maxWeight {
		problems = append(problems, fmt.Errorf("cell %q: weight must be 1 to %d", c.Name, maxWeight))
	}
	switch {
	case c.DSN != "" && c.DSNFile != "":
		problems = append(problems, fmt.Errorf("cell %q: give dsn or dsn_file, not both", c.Name))
	case c.DSNFile != "":
		text, err := secret.FromFile(c.DSNFile)
		if err != nil {
			problems = append(problems, fmt.Errorf("cell %q: dsn_file: %w", c.Name, err))
		}
		c.DSN = text
	}
	return errors.Join(problems...)
}

// Prefix is what the paths of a cell's routes begin with.
func Prefix(name string) string { return "/cells/" + name }
