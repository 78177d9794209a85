package forms

import (
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Key reads the form of a new key.
func (f *Reader) Key(now time.Time) (api.KeyRequest, error) {
	request := api.KeyRequest{User: f.Word("user"), Scopes: slices.Clone(f.Values["scope"])}
	if request.Scopes == nil {
		request.Scopes = []string{}
	}
	if days := f.Small("days"); days != nil {
		request.ExpiresAt = new(api.At(now.AddDate(0, 0, *days)))
	}
	if len(f.Wrong) > 0 {
		return request, problem.Invalid(f.Wrong...)
	}
	return request, nil
}
