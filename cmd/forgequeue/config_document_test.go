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

var update = flag.Bool("update", false, "write api-docs/config.md and api-docs/metrics.md anew")

// The page of settings is written from the tags of the structs that read them.
func TestConfigDocument(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Settings\n\nBoth services, and `forgequeue relay` ([outbox](outbox.md)), read their settings from the environment, and report all invalid ones at once. " +
		"`forgequeue up` sets\nPostgreSQL, Redis, the addresses and the secrets by itself. If a setting has two names, the second takes the path of a\nfile with the value, so that a secret need not be in the environment.\n\n" +
		"This page is written from the code: `go test ./cmd/forgequeue -run TestConfigDocument -update`.\n")
	section(&b, "gateway", reflect.TypeFor[gatewayapp.Config]())
	section(&b, "core", reflect.TypeFor[coreapp.Config]())
	section(&b, "relay", reflect.TypeFor[relay.Settings]())
	path := filepath.Join("..", "..", "api-docs", "config.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(path)
	if err != nil || string(written) != b.String() {
		t.Errorf("api-docs/config.md is not what the code says (%v); write it anew with -update", err)
	}
}

func section(b *strings.Builder, name string, config reflect.Type) {
	fmt.Fprintf(b, "\n## %s\n\n| variable | meaning |\n|---|---|\n", name)
	rows(b, config)
}

// rows lists a struct's settings, those of structs in it where they stand.
func rows(b *strings.Builder, config reflect.Type) {
	for field := range config.Fields() {
		tag := field.Tag
		variable := tag.Get("env")
		if variable == "-" {
			continue
		}
		if variable == "" {
			rows(b, field.Type)
			continue
		}
		names := "`" + variable + "`"
		if field.Type == reflect.TypeFor[secret.Text]() {
			names += ", `" + variable + "_FILE`"
		}
		fmt.Fprintf(b, "| %s | %s |\n", names, tag.Get("doc"))
	}
}
