package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/sso"
)

// checkSignOn validates the settings of single sign-on.
func (cfg Config) checkSignOn() error {
	var problems []error
	wrong := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	wrong(cfg.OIDCCheck >= time.Second && cfg.OIDCCheck <= time.Minute, "FORGEQUEUE_OIDC_CHECK_EVERY %v: must be between 1s and 1m0s", cfg.OIDCCheck)
	if cfg.OIDCIssuer == "" {
		wrong(cfg.OIDCClient == "" && cfg.OIDCSecret == "" && cfg.OIDCGroups == "",
			"FORGEQUEUE_OIDC_ISSUER: is required with FORGEQUEUE_OIDC_CLIENT_ID, FORGEQUEUE_OIDC_CLIENT_SECRET or FORGEQUEUE_OIDC_GROUPS")
		return errors.Join(problems...)
	}
	wrong(validIssuer(cfg.OIDCIssuer), "FORGEQUEUE_OIDC_ISSUER %q: must be an https URL without query, http only on this machine", cfg.OIDCIssuer)
	wrong(cfg.OIDCClient != "", "FORGEQUEUE_OIDC_CLIENT_ID: is required with FORGEQUEUE_OIDC_ISSUER")
	wrong(cfg.OIDCClaim != "", "FORGEQUEUE_OIDC_GROUPS_CLAIM: must not be empty")
	wrong(cfg.PublicURL != "", "FORGEQUEUE_PUBLIC_URL: is required with FORGEQUEUE_OIDC_ISSUER, as the provider sends browsers back to it")
	wrong(cfg.Console == consoleOn, "FORGEQUEUE_OIDC_ISSUER: needs FORGEQUEUE_CONSOLE on, as people sign in to the console")
	if cfg.OIDCGroups == "" {
		wrong(false, "FORGEQUEUE_OIDC_GROUPS: is required with FORGEQUEUE_OIDC_ISSUER")
	} else {
		_, err := sso.ParseGrants(cfg.OIDCGroups.Reveal())
		wrong(err == nil, "FORGEQUEUE_OIDC_GROUPS: %w", err)
	}
	return errors.Join(problems...)
}

// validIssuer refuses what would carry secrets in clear over a network.
func validIssuer(text string) bool {
	issuer, err := url.Parse(text)
	if err != nil || issuer.Host == "" || issuer.RawQuery != "" || issuer.Fragment != "" || issuer.User != nil {
		return false
	}
	address, err := netip.ParseAddr(issuer.Hostname())
	local := issuer.Hostname() == "localhost" || err == nil && address.IsLoopback()
	return issuer.Scheme == "https" || issuer.Scheme == "http" && local
}

// signOn is single sign-on for the console; nil where there is none.
func (cfg Config) signOn(logger *slog.Logger) (*sso.Provider, error) {
	if cfg.OIDCIssuer == "" {
		return nil, nil //nolint:nilnil // there is none, and no error
	}
	grants, err := sso.ParseGrants(cfg.OIDCGroups.Reveal())
	if err != nil {
		return nil, fmt.Errorf("FORGEQUEUE_OIDC_GROUPS: %w", err)
	}
	return sso.New(sso.Options{
		Issuer: cfg.OIDCIssuer, ClientID: cfg.OIDCClient, ClientSecret: cfg.OIDCSecret.Reveal(),
		Grants: grants, GroupsClaim: cfg.OIDCClaim, PublicURL: strings.TrimSuffix(cfg.PublicURL, "/"),
		CheckEvery: cfg.OIDCCheck, Logger: logger,
	}), nil
}
