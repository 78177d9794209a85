package jobtype_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/server/jobtype"
)

// A count beyond 64 bits was cut to them: minLength 2^63 took anything, maxLength 2^64 refused everything.
func TestCountsThatAreTooLargeAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"} {
		for text, taken := range map[string]bool{
			"0": true, "12": true, "2.0": true, "1e3": true, "2147483647": true,
			"2147483648": false, "9223372036854775808": false, "18446744073709551616": false, "1e30": false, "36893488147419103232.0": false,
		} {
			schema := `{"contains": true, "` + name + `": ` + text + `}`
			for _, place := range []string{schema, `{"properties": {"a": ` + schema + `}}`, `{"anyOf": [true, ` + schema + `]}`} {
				_, err := jobtype.Compile([]byte(place))
				if taken && err != nil {
					t.Errorf("%s: %v", place, err)
				}
				if !taken && (err == nil || !strings.Contains(err.Error(), name)) {
					t.Errorf("%s: %v, want a refusal that names %s", place, err, name)
				}
			}
		}
	}
	if _, err := jobtype.Compile([]byte(`{"properties": {"maxLength": {"type": "string"}}}`)); err != nil {
		t.Errorf("a property of that name: %v", err)
	}
}
