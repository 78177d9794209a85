package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

var (
	// index is that of an item in the name of a field.
	index = regexp.MustCompile(`\[\d+\]`)
	// unit ends the name of a field whose flag has none.
	unit = regexp.MustCompile(`_(ms|seconds|at|per_second)$`)
	// otherFlags are flags that do not have their field's name.
	otherFlags = map[string]string{"url": "endpoint", "events": "event", "tags": "tag", "payload": "data", "canary-count": "canary", "push-url": "push"}
)

// fieldFlag is the flag of a command that sets a field of the API, such as --retry-base for retry.base_ms; "" if there is
// none. It has the names of the field's last objects in front, as far as there is such a flag.
func fieldFlag(command *cobra.Command, field string) string {
	names := strings.Split(index.ReplaceAllString(field, ""), ".")
	for ; len(names) > 0; names = names[1:] {
		whole := strings.Join(names, "-")
		name, own := strings.ReplaceAll(unit.ReplaceAllString(whole, ""), "_", "-"), strings.ReplaceAll(whole, "_", "-")
		for _, flag := range []string{otherFlags[name], name, own} { // own: --run-at
			// Those of all commands, such as --url, set no field.
			if flag != "" && command.LocalNonPersistentFlags().Lookup(flag) != nil {
				return "--" + flag
			}
		}
	}
	return ""
}
