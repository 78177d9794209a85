package httpapi

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	defaultPageSize = 50
	maxPageSize     = 200
	// maxPageToken bounds what is passed on; core's tokens are far shorter.
	maxPageToken = 1024
)

// pageParams are what every list takes.
func pageParams() []string { return []string{"page_size", "page_token"} }

// readPage reads them. Whether a token is good, and belongs to this list, is for
// core to say: it made it.
func readPage(query url.Values) (api.HopPageRequest, error) {
	page := api.HopPageRequest{PageSize: defaultPageSize, PageToken: query.Get("page_token")}
	var refused []problem.FieldError
	if query.Has("page_size") {
		size, err := strconv.ParseUint(query.Get("page_size"), 10, 16)
		if err != nil || size < 1 || size > maxPageSize {
			refused = append(refused, problem.FieldError{Field: "page_size", Message: fmt.Sprintf("must be between 1 and %d", maxPageSize)})
		}
		page.PageSize = int(size)
	}
	if query.Has("page_token") && (page.PageToken == "" || len(page.PageToken) > maxPageToken) {
		refused = append(refused, problem.FieldError{Field: "page_token", Message: "must be the next_page_token of the page before"})
	}
	if len(refused) > 0 {
		return page, problem.Invalid(refused...)
	}
	return page, nil
}
