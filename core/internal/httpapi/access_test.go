package httpapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// accessSentences are what api-docs/core.json says of whose principal an item must have.
var accessSentences = map[string][]string{
	"For principals of a tenant.":                                                    {"tenant", "no scopes", "user", "user, no scopes"},
	"For principals of a tenant, bound to no user.":                                  {"tenant", "no scopes"},
	"For principals of a tenant, bound to no user, and of the platform.":             {"tenant", "no scopes", "platform"},
	"For principals of a tenant, bound to no user, and for the operator.":            {"tenant", "no scopes", "operator"},
	"For principals of a tenant with the scope `read`, and for those of workers: of": {"tenant", "no scopes", "user", "platform"},
	"For the operator, and for principals of a tenant with the scope `admin`, bound": {"tenant", "operator"},
	"For the operator.":               {"operator"},
	"The principal is not looked at.": {"tenant", "no scopes", "user", "user, no scopes", "platform", "operator", "nobody"},
}

// Each call is refused to those principals alone that the document does not name. It sends the
// document's own examples.
func TestAccessIsAsDocumented(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	const admin = "adminadminad"
	calltest.One[api.Key](f, hop.CreateKey.Path, calltest.Operator(), hop.CreateKeyRequest{
		KeyID: admin, Kind: hop.PrincipalTenant, Tenant: f.Tenant.Tenant, SecretHMAC: make([]byte, 32), Scopes: api.Scopes(),
	})
	full := f.Tenant
	full.Scopes, full.KeyID = api.Scopes(), admin
	principals := map[string]hop.Principal{
		"tenant": full, "no scopes": f.Tenant, "user": calltest.UserOf(full, "bob"), "user, no scopes": calltest.UserOf(f.Tenant, "bob"),
		"platform": calltest.Platform(), "operator": calltest.Operator(), "nobody": {},
	}
	calls := documentedCalls(t)
	paths := slices.Sorted(maps.Keys(calls))
	// the deletion of the tenant comes last: afterwards nothing is allowed
	paths = append(slices.DeleteFunc(paths, func(path string) bool { return path == hop.DeleteTenant.Path }), hop.DeleteTenant.Path)
	for _, path := range paths {
		call := calls[path]
		var allowed []string
		for sentence, names := range accessSentences {
			if strings.Contains(call.description, sentence) {
				allowed = append(allowed, names...)
			}
		}
		if len(allowed) == 0 {
			t.Errorf("%s: the document does not say who may call it: %q", path, call.description)
			continue
		}
		if path == hop.PutSchedule.Path { // of a user's key it takes that user's jobs alone
			call.request["value"].(map[string]any)["job"].(map[string]any)["user"] = "bob"
		}
		for name, p := range principals {
			got := calltest.Ask[any](f, path, calltest.Item(p, call.request))[0]
			if forbidden := got.Status == http.StatusForbidden; forbidden == slices.Contains(allowed, name) {
				t.Errorf("%s, %s: %d %v; the document says %q", path, name, got.Status, got.Problem, call.description)
			}
		}
	}
}

// documentedCall is an operation of api-docs/core.json, with one of its examples.
type documentedCall struct {
	description string
	request     map[string]any
}

func documentedCalls(t *testing.T) map[string]documentedCall {
	t.Helper()
	text, err := os.ReadFile("../../../api-docs/core.json")
	if err != nil {
		t.Fatal(err)
	}
	type example struct {
		Value struct {
			Items []struct {
				Request map[string]any `json:"request"`
			} `json:"items"`
		} `json:"value"`
	}
	var document struct {
		Paths map[string]struct {
			Post struct {
				Description string `json:"description"`
				RequestBody struct {
					Content map[string]struct {
						Examples map[string]example `json:"examples"`
					} `json:"content"`
				} `json:"requestBody"`
			} `json:"post"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	calls := map[string]documentedCall{}
	for path, item := range document.Paths {
		for _, shown := range item.Post.RequestBody.Content["application/json"].Examples {
			calls[path] = documentedCall{item.Post.Description, shown.Value.Items[0].Request}
		}
	}
	if len(calls) < 70 {
		t.Fatalf("%d calls are documented with an example", len(calls))
	}
	return calls
}
