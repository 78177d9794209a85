package console

import (
	"slices"

	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
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

func listKeys(v *visit) (shown, error) { return v.keysPage(nil) }

func (v *visit) keysPage(made *api.NewKey) (shown, error) {
	page := keysPage{Scopes: api.Scopes(), New: made}
	keys, err := v.api.OwnKeys(v.ctx(), v.page(100))
	if err != nil && made == nil {
		return shown{}, err
	}
	page.Unread = err != nil // the new key is shown all the same: it is never shown again
	for _, one := range keys.Items {
		page.Items = append(page.Items, keyRow{one, one.KeyID == v.who.KeyID, one.ExpiresAt != nil && !one.ExpiresAt.After(v.console.now())})
	}
	page.Older = v.older(keys.NextPageToken)
	return shown{template: "keys", title: "Keys", data: page}, nil
}

// keyRequest reads the form of a new key.
func (v *visit) keyRequest() (api.KeyRequest, error) {
	form := forms.Reader{Values: v.form}
	request := api.KeyRequest{User: form.Word("user"), Scopes: slices.Clone(v.form["scope"])}
	if request.Scopes == nil {
		request.Scopes = []string{}
	}
	if days := form.Small("days"); days != nil {
		request.ExpiresAt = new(api.At(v.console.now().AddDate(0, 0, *days)))
	}
	if len(form.Wrong) > 0 {
		return request, problem.Invalid(form.Wrong...)
	}
	return request, nil
}

// makeOwnKey shows the new key in its own answer: it is in no URL, and cannot be shown again.
func makeOwnKey(v *visit) (shown, error) {
	request, err := v.keyRequest()
	if err != nil {
		return shown{}, err
	}
	made, err := v.api.CreateOwnKey(v.ctx(), request)
	if err != nil {
		return shown{}, err
	}
	return v.keysPage(&made)
}

func changeOwnKey(v *visit) (string, error) {
	if v.r.PostFormValue("do") != "revoke" {
		return "", errNoSuchAction
	}
	return "/console/keys?note=key-revoked", v.api.RevokeOwnKey(v.ctx(), v.r.PathValue("id"))
}
