package mcp

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the table of tools in api-docs/mcp.md")

// The page's table of tools is written from the code.
func TestToolsDocument(t *testing.T) {
	t.Parallel()
	tools, err := described()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("\n| tool | the request | arguments |\n|---|---|---|\n")
	for _, t := range tools {
		var names []string
		required, _ := t.schema["required"].([]string)
		for name := range t.schema["properties"].(map[string]any) {
			if slices.Contains(required, name) {
				name = "**" + name + "**"
			}
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return strings.Compare(strings.Trim(a, "*"), strings.Trim(b, "*")) })
		request := t.method + " " + t.path
		if t.fixed["dry_run"] != nil {
			request += " with `dry_run`"
		}
		name := "`" + t.name + "`"
		if t.effect != reads {
			name += " (w)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, request, strings.Join(names, ", "))
	}
	path := filepath.Join("..", "..", "..", "api-docs", "mcp.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "<!-- tools: go test ./gateway/internal/mcp -run TestToolsDocument -update -->\n", "<!-- end of tools -->"
	before, rest, found := strings.Cut(string(page), from)
	table, after, ended := strings.Cut(rest, to)
	if !found || !ended {
		t.Fatal("api-docs/mcp.md has no place for the table")
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+from+b.String()+"\n"+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != b.String()+"\n" {
		t.Error("api-docs/mcp.md is not what the tools are; run the test with -update")
	}
}

// What agents read of all tools is bounded, and no schema has what JSON Schema does not know.
func TestSchemasArePlain(t *testing.T) {
	t.Parallel()
	tools, err := described()
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, tool := range tools {
		text, err := json.Marshal(tool.shown())
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
		for _, word := range []string{"$ref", "nullable", `"x-`, "exclusiveMinimum"} {
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("%s has %s: %s", tool.name, word, text)
			}
		}
		for name, schema := range tool.schema["properties"].(map[string]any) {
			if schema, is := schema.(map[string]any); !is || tool.places[name] == "" && name != matchedArgument {
				t.Errorf("%s: %s is %v", tool.name, name, schema)
			}
		}
	}
	if size > 40<<10 {
		t.Errorf("the tools have %d bytes", size)
	}
}

// Whatever JSON the API answers, a part of it that fits is JSON; a list that is cut says so, and has none of its items changed.
func TestWhatIsCutIsJSON(t *testing.T) {
	t.Parallel()
	value := rapid.Custom(func(t *rapid.T) any { return anything(t, 3) })
	rapid.Check(t, func(t *rapid.T) {
		text, err := encode(map[string]any{"items": rapid.SliceOfN(value, 0, 30).Draw(t, "items"), "other": value.Draw(t, "other"), "next_page_token": "x"})
		if err != nil {
			t.Fatal(err)
		}
		most := rapid.IntRange(4<<10, 16<<10).Draw(t, "most")
		for _, short := range [][]byte{fit(text, most), shorten(text, most)} {
			if !json.Valid(short) || len(short) > most {
				t.Fatalf("%d bytes of at most %d: %s", len(short), most, short)
			}
		}
		var whole, page cutPage
		if json.Unmarshal(text, &whole) != nil || json.Unmarshal(fit(text, most), &page) != nil {
			t.Fatalf("no page: %s", text)
		}
		if leftOut := len(page.Items) < len(whole.Items); leftOut != (page.Cut != nil) && len(whole.Items) > 0 || leftOut == (page.Next != nil) {
			t.Fatalf("%d of %d items, %+v: %s", len(page.Items), len(whole.Items), page, text)
		}
	})
}

func anything(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
	case kind == 0 && depth > 0:
		members := map[string]any{}
		for i := range rapid.IntRange(0, 8).Draw(t, "members") {
			members[fmt.Sprint("member", i)] = anything(t, depth-1)
		}
		return members
	case kind == 1 && depth > 0:
		items := make([]any, rapid.IntRange(0, 8).Draw(t, "items"))
		for i := range items {
			items[i] = anything(t, depth-1)
		}
		return items
	case kind == 2:
		return rapid.IntRange(-9, 1e9).Draw(t, "number")
	}
	return strings.Repeat(rapid.SampledFrom([]string{"x", "é", `"`, "\x00", "<"}).Draw(t, "letter"), rapid.IntRange(0, 1000).Draw(t, "length"))
}
