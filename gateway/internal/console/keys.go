package console

import (
	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// keyRow is a key in a list.
type keyRow struct {
	api.Key

	// Own says that it is the key of this session, which cannot revoke itself.
	Own, Expired bool
}

type keysPage struct {
	Items  []keyRow
	Older  string
	Scopes []string
	// New is a key that was made just now: it is shown once.
	New *api.NewKey
	// Unread says that the list could not be read after New was made.
	Unread bool
}

func listKeys(v *visit.Visit) (visit.Page, error) { return showKeys(v, nil) }

func showKeys(v *visit.Visit, made *api.NewKey) (visit.Page, error) {
	page := keysPage{Scopes: api.Scopes(), New: made}
	keys, err := v.API.OwnKeys(v.Context(), v.PageRequest(100))
	if err != nil && made == nil {
		return visit.Page{}, err
	}
	page.Unread = err != nil // the new key is shown all the same: it is never shown again
	for _, one := range keys.Items {
		page.Items = append(page.Items, keyRow{one, one.KeyID == v.Who.KeyID, one.ExpiresAt != nil && !one.ExpiresAt.After(v.Site.Now())})
	}
	page.Older = v.Older(keys.NextPageToken)
	return visit.Page{Template: "keys", Title: "Keys", Data: page}, nil
}

// makeOwnKey shows the new key in its own answer: it is in no URL, and cannot be shown again.
func makeOwnKey(v *visit.Visit) (visit.Page, error) {
	request, err := (&forms.Reader{Values: v.Form}).Key(v.Site.Now())
	if err != nil {
		return visit.Page{}, err
	}
	made, err := v.API.CreateOwnKey(v.Context(), request)
	if err != nil {
		return visit.Page{}, err
	}
	return showKeys(v, &made)
}

func changeOwnKey(v *visit.Visit) (string, error) {
	if v.Request.PostFormValue("do") != "revoke" {
		return "", visit.ErrNoSuchAction
	}
	return "/console/keys?note=key-revoked", v.API.RevokeOwnKey(v.Context(), v.Request.PathValue("id"))
}
