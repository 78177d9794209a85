package sso_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/console/sso"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	acme  = "0190a000-0000-7000-8000-00000000000a"
	other = "0190a000-0000-7000-8000-00000000000b"
)

// A person has, in each tenant, what any of their groups gives; the tenants are in the order of the setting.
func TestGroupsGiveScopes(t *testing.T) {
	t.Parallel()
	grants, err := sso.ParseGrants(`[
		{"group": "ops", "tenant": "` + other + `", "scopes": ["manage", "read"]},
		{"group": "cn=staff,o=acme", "tenant": "` + strings.ToUpper(acme) + `", "scopes": ["read"]},
		{"group": "leads", "tenant": "` + acme + `", "scopes": ["admin", "submit"]},
		{"group": "ops", "tenant": "` + acme + `", "scopes": ["manage", "read"]}
	]`)
	if err != nil {
		t.Fatal(err)
	}
	for groups, want := range map[string]string{
		"":                      "",
		"unknown|OPS|op":        "",
		"cn=staff,o=acme":       acme + " [read]",
		"leads|cn=staff,o=acme": acme + " [submit read admin]",
		"ops":                   other + " [read manage]," + acme + " [read manage]",
		"ops|leads":             other + " [read manage]," + acme + " [submit read manage admin]",
	} {
		var got []string
		for _, one := range grants.For(strings.Split(groups, "|")) {
			got = append(got, fmt.Sprint(one.Tenant, " ", one.Scopes))
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%q: %q", groups, got)
		}
	}
	access := grants.For([]string{"leads"})
	if scopes := access.In(acme); !slices.Equal(scopes, []string{api.ScopeSubmit, api.ScopeAdmin}) || access.In(other) != nil {
		t.Errorf("%v", access)
	}
}

func TestWrongGroupsAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:     "JSON array",
		`{}`:   "JSON array",
		`[]`:   "nobody",
		`[] x`: "more after",
		`[{"group":"g","tenant":"` + acme + `","scopes":["read"],"user":"u"}]`:                                             "unknown field",
		`[{"group":"g","tenant":"` + acme + `","scopes":["read"]},{"group":"","tenant":"` + acme + `","scopes":["read"]}]`: "entry 2: group is empty",
		`[{"group":"g","tenant":"acme","scopes":["read"]}]`:                                                                `"acme" is not`,
		`[{"group":"g","tenant":"` + acme + `","scopes":[]}]`:                                                              "scopes is empty",
		`[{"group":"g","tenant":"` + acme + `","scopes":["root"]}]`:                                                        `"root" is none of submit, read`,
	} {
		if _, err := sso.ParseGrants(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, scope := range api.Scopes() {
		if _, err := sso.ParseGrants(`[{"group":"g","tenant":"` + acme + `","scopes":["` + scope + `"]}]`); err != nil {
			t.Errorf("%s: %v", scope, err)
		}
	}
}
