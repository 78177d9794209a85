package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/relay"
	coreapp "github.com/forgequeue/forgequeue/core/app"
	gatewayapp "github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/shared/server/secret"
)

var update = flag.Bool("update", false, "write the generated pages of api-docs")

// The page of settings is written from the tags of the structs that read them.
func TestConfigDocument(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Settings\n\nGateway, core and `forgequeue relay` ([outbox](outbox.md)) read their settings from the environment, and report all invalid ones at start. " +
		"`forgequeue up` sets PostgreSQL,\nRedis, the addresses and the secrets itself. The second name of a setting takes the path of a file with the value.\n\n" +
		"<!-- Written from the code: go test ./cmd/forgequeue -run TestConfigDocument -update. -->\n")
	seen := map[string]bool{}
	section(&b, seen, "gateway", reflect.TypeFor[gatewayapp.Config]())
	section(&b, seen, "core", reflect.TypeFor[coreapp.Config]())
	section(&b, seen, "relay", reflect.TypeFor[relay.Settings]())
	path := filepath.Join("..", "..", "api-docs", "config.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(path)
	if err != nil || string(written) != b.String() {
		t.Errorf("api-docs/config.md is not what the code says (%v); run the test with -update", err)
	}
}

// section lists the settings of a program; those that an earlier one has in the same words, by name only.
func section(b *strings.Builder, seen map[string]bool, name string, config reflect.Type) {
	fmt.Fprintf(b, "\n## %s\n\n", name)
	if same := rows(b, seen, config); len(same) > 0 {
		fmt.Fprintf(b, "- %s: as above.\n", strings.Join(same, ", "))
	}
}

// rows lists a struct's settings, those of structs in it where they stand, and gives those that were listed before.
func rows(b *strings.Builder, seen map[string]bool, config reflect.Type) (same []string) {
	for field := range config.Fields() {
		tag := field.Tag
		variable := tag.Get("env")
		if variable == "-" {
			continue
		}
		if variable == "" {
			same = append(same, rows(b, seen, field.Type)...)
			continue
		}
		names := "`" + variable + "`"
		if field.Type == reflect.TypeFor[secret.Text]() {
			names += ", `" + variable + "_FILE`"
		}
		text := fmt.Sprintf("- %s: %s\n", names, tag.Get("doc"))
		if seen[text] {
			same = append(same, names)
			continue
		}
		seen[text] = true
		b.WriteString(text)
	}
	return same
}
