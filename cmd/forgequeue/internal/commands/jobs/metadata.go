package jobs

import (
	"strings"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

// pairs reads the NAME=VALUE of --metadata; nil for none.
func pairs(texts []string) (map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil //nolint:nilnil // no metadata is no error
	}
	read := make(map[string]string, len(texts))
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, cli.Usage("--metadata %q: must be NAME=VALUE", text)
		}
		read[name] = value
	}
	return read, nil
}
