package sso

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Grant is what a group of the provider gives its members: scopes in a tenant.
type Grant struct {
	Group  string   `json:"group"`
	Tenant string   `json:"tenant"`
	Scopes []string `json:"scopes"`
}

// Grants are all that groups give. The first tenant that a person may use is where they begin.
type Grants []Grant

// ParseGrants reads the setting: a JSON array of grants. The error is a sentence for the operator.
func ParseGrants(text string) (Grants, error) {
	var grants Grants
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&grants); err != nil {
		return nil, fmt.Errorf("must be a JSON array of objects with group, tenant and scopes: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has more after its JSON array")
	}
	if len(grants) == 0 {
		return nil, errors.New("has no group, so nobody could sign in")
	}
	for i := range grants {
		if err := grants[i].check(); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	return grants, nil
}

func (g *Grant) check() error {
	tenant, err := uuid.Parse(g.Tenant)
	if g.Group == "" {
		return errors.New("group is empty")
	}
	if err != nil {
		return fmt.Errorf("tenant %q is not a tenant's id", g.Tenant)
	}
	g.Tenant = tenant.String()
	if len(g.Scopes) == 0 {
		return errors.New("scopes is empty")
	}
	for _, scope := range g.Scopes {
		if !slices.Contains(api.Scopes(), scope) {
			return fmt.Errorf("scope %q is none of %s", scope, strings.Join(api.Scopes(), ", "))
		}
	}
	return nil
}

// Allowed is a tenant that a person may use, and what they may do there.
type Allowed struct {
	Tenant string
	Scopes []string
}

// Access is what a person may do: the tenants in the order of the setting.
type Access []Allowed

// For gives what the members of groups may do: in each tenant all that any of their groups gives.
func (g Grants) For(groups []string) (access Access) {
	for _, grant := range g {
		if !slices.Contains(groups, grant.Group) {
			continue
		}
		at := slices.IndexFunc(access, func(one Allowed) bool { return one.Tenant == grant.Tenant })
		if at < 0 {
			at, access = len(access), append(access, Allowed{Tenant: grant.Tenant})
		}
		had := access[at].Scopes
		access[at].Scopes = slices.DeleteFunc(api.Scopes(), func(scope string) bool { // in one order
			return !slices.Contains(had, scope) && !slices.Contains(grant.Scopes, scope)
		})
	}
	return access
}

// In gives the scopes in a tenant, none where the person may not use it.
func (a Access) In(tenant string) []string {
	for _, one := range a {
		if one.Tenant == tenant {
			return one.Scopes
		}
	}
	return nil
}
