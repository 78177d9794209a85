package sso

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const (
	// longestName bounds the name in an id, in bytes, and hashLength is how many characters of base32 follow it: an id must
	// be a label.
	longestName = 80
	hashLength  = 12
)

// nameOf is what to call a person: an address that the provider does not doubt, else a user name, else the subject.
func nameOf(subject string, all ...claims) string {
	for _, of := range all {
		if email := of.text("email"); email != "" && !strings.Contains(string(of["email_verified"]), "false") {
			return email
		}
	}
	for _, of := range all {
		if name := of.text("preferred_username"); name != "" {
			return name
		}
	}
	return subject
}

// Principal is on whose behalf a person's requests are made. Its KeyID, by which the audit log names the person, is the name
// and a hash of issuer and subject: two people never have the same one, and nobody gets another's by a change of name.
func (p *Provider) Principal(who session.Person) hop.Principal {
	sum := sha256.Sum256([]byte(p.o.Issuer + "\n" + who.Subject))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:hashLength]
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune("@._+-", c):
			return c
		}
		return '_'
	}, who.Name)
	return hop.Principal{
		Kind: hop.PrincipalTenant, Tenant: who.Tenant, Scopes: who.Scopes,
		KeyID: hop.PersonPrefix + name[:min(len(name), longestName)] + "/" + hash,
	}
}
