package sample

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// maxDocument is where a document is cut off, in bytes: as JSON, with line
// breaks and quotes escaped, it still fits into a payload.
const maxDocument = 200 << 10

// tour is the document outside of a checkout, where a copied binary runs.
//
//go:embed tour.md
var tour string

// Documents are the project's own documents: README.md, CHANGELOG.md,
// SECURITY.md, LICENSE and the pages of api-docs, of the checkout that contains
// start. Missing ones are skipped. Outside of a checkout it is tour.md.
func Documents(start string) ([]Document, error) {
	root, ok, err := checkout(start)
	if err != nil {
		return nil, err
	}
	var documents []Document
	if ok {
		if documents, err = read(os.DirFS(root)); err != nil {
			return nil, fmt.Errorf("read the documents of %s: %w", root, err)
		}
	}
	if len(documents) == 0 {
		return []Document{{Name: "tour.md", Text: tour}}, nil
	}
	return documents, nil
}

// checkout walks up from start to the folder with go.work, and checks that it is
// this project's and no other workspace.
func checkout(start string) (string, bool, error) {
	folder, err := filepath.Abs(start)
	if err != nil {
		return "", false, fmt.Errorf("look for the checkout: %w", err)
	}
	for {
		if isFile(filepath.Join(folder, "go.work")) && isFile(filepath.Join(folder, "cmd", "go.mod")) {
			return folder, true, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", false, nil
		}
		folder = parent
	}
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

func read(root fs.FS) ([]Document, error) {
	names := []string{"README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE"}
	err := fs.WalkDir(root, "api-docs", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var documents []Document
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, Document{Name: name, Text: cut(string(text), maxDocument)})
	}
	return documents, nil
}

// cut shortens text to at most size bytes, on a rune.
func cut(text string, size int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= size {
		return text
	}
	for !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}
