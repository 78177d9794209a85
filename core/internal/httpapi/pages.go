package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// listing is what a page token belongs to. With another list, tenant, user or filter the
// place in it would mean something else, or reveal what the caller may not see.
type listing struct {
	List   string `json:"list"`
	Kind   string `json:"kind"`
	Tenant string `json:"tenant"`
	User   string `json:"user"`
	Filter any    `json:"filter"`
}

func listingOf(list string, p api.Principal, filter any) listing {
	return listing{List: list, Kind: p.Kind, Tenant: p.Tenant, User: p.User, Filter: filter}
}

// paged reads a page of a list. read takes and returns a place in the list; the page token is
// that place, sealed: encrypted, because it may be the id of a job that the caller may not
// see, and authenticated. A token that was changed, or is another listing's, is refused.
func paged[T any](s *Server, of listing, token string, read func(place string) (api.Page[T], error)) (api.Page[T], error) {
	where, err := json.Marshal(of)
	if err != nil {
		return api.Page[T]{}, fmt.Errorf("page token: %w", err)
	}
	place := ""
	if token != "" {
		sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
		if err != nil {
			return api.Page[T]{}, store.ErrPageToken
		}
		opened, _, err := s.Pages.Open(sealed, "page "+string(where))
		if err != nil {
			return api.Page[T]{}, store.ErrPageToken
		}
		place = string(opened)
	}
	page, err := read(place)
	if err == nil && page.NextPageToken != nil {
		next := base64.RawURLEncoding.EncodeToString(s.Pages.Seal([]byte(*page.NextPageToken), "page "+string(where)))
		page.NextPageToken = &next
	}
	return page, err
}

// pageSize is the size of a page: the size asked for, within its bounds.
func pageSize(asked int) int {
	if asked < 1 {
		return api.DefaultPageSize
	}
	return min(asked, api.MaxPageSize)
}

// page makes a page of a list that was read with one item more than size: the extra item
// says that there is a next page.
func page[T any](found []T, size int, token func(T) string) api.Page[T] {
	made := api.Page[T]{Items: found}
	if found == nil {
		made.Items = []T{}
	}
	if len(found) > size && size > 0 {
		made.Items = found[:size]
		next := token(found[size-1])
		made.NextPageToken = &next
	}
	return made
}
