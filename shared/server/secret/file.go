package secret

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"strings"

	"github.com/forgequeue/forgequeue/shared/plaintext"
)

// fileSuffix makes the variable that names a file out of the one that it stands in for.
const fileSuffix = "_FILE"

// maxFile is more than any secret; a larger file is another one than was meant.
const maxFile = 64 << 10

// WithFiles gives settings with what their files hold: where config, a struct with
// env tags, takes a Text from NAME, NAME_FILE may name the file it is in. A line
// break at the end of the file is not part of the secret. The settings themselves
// stay as they are. The error has every problem and shows no secret.
func WithFiles(settings map[string]string, config reflect.Type) (map[string]string, error) {
	var problems []error
	read := maps.Clone(settings)
	for field := range config.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		path := settings[name+fileSuffix]
		if field.Type != reflect.TypeFor[Text]() || path == "" {
			continue
		}
		if settings[name] != "" {
			problems = append(problems, fmt.Errorf("%s and %[1]s%[2]s: give one of them, not both", name, fileSuffix))
			continue
		}
		text, err := FromFile(path)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s%s: %w", name, fileSuffix, err))
			continue
		}
		read[name] = text.Reveal()
	}
	return read, errors.Join(problems...)
}

// FromFile reads a secret. An empty file is an error.
func FromFile(path string) (Text, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxFile:
		return "", fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	text, err = plaintext.Decode(text)
	if err != nil {
		return "", fmt.Errorf("%s %w", path, err)
	}
	value := strings.TrimRight(string(text), "\r\n")
	if value == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return Text(value), nil
}
