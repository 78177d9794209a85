package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Sentinels gives the code of each error in the table.
func Sentinels() map[error]problem.Code {
	codes := map[error]problem.Code{}
	for _, known := range sentinels() {
		codes[known.err] = known.code
	}
	return codes
}

// AsProblem is how an error is told to a caller.
func AsProblem(ctx context.Context, err error) *problem.Problem { return asProblem(ctx, err) }

// Merged lists numbers that lie in several cells, page by page. read, like the lists of the store,
// reads at most look numbers from a place on, of which those that match are in the page: it may end
// before there are size.
func Merged(ctx context.Context, lists [][]int, size, look int, match func(int) bool) (pages [][]int, err error) {
	d := &Divider{}
	servers := map[*Server]int{}
	for i := range lists {
		server := &Server{}
		servers[server] = i
		d.Cells = append(d.Cells, &CellDoor{Name: strconv.Itoa(i), Gate: cells.NewGate()})
		d.Cells[i].Open(server, cells.Target{})
	}
	place := ""
	for range 10_000 {
		page, err := mergeList(ctx, d, d.allCells(), size, place, func(_ context.Context, s *Server, place string) (api.Page[int], error) {
			list, after := lists[servers[s]], 0
			if place != "" {
				number, err := strconv.Atoi(place)
				if err != nil {
					return api.Page[int]{}, store.ErrPageToken
				}
				after = number
			}
			from := slices.IndexFunc(list, func(n int) bool { return n > after })
			page := api.Page[int]{}
			for read := 0; from >= 0 && from+read < len(list); read++ {
				if len(page.Items) == size || read == look {
					last := strconv.Itoa(list[from+read-1])
					page.NextPageToken = &last
					break
				}
				if n := list[from+read]; match(n) {
					page.Items = append(page.Items, n)
				}
			}
			return page, nil
		}, cmp.Compare[int], strconv.Itoa)
		if err != nil {
			return nil, err
		}
		if pages = append(pages, page.Items); page.NextPageToken == nil {
			return pages, nil
		}
		place = *page.NextPageToken
	}
	return nil, fmt.Errorf("the list has no end")
}
