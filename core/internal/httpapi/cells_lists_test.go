package httpapi_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/httpapi"
)

// Whatever lies in which cell, and wherever a cell's pages end: a merged list has each item once, in order.
func TestMergedListsAreComplete(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		lists := make([][]int, 1+random.IntN(4))
		match := func(n int) bool { return n%(1+round%5) == 0 }
		var want []int
		for n := 1; n <= random.IntN(60); n++ {
			first := random.IntN(len(lists))
			lists[first] = append(lists[first], n)
			if also := random.IntN(len(lists)); also != first && random.IntN(4) == 0 { // in two cells, as a platform's worker
				lists[also] = append(lists[also], n)
			}
			if match(n) {
				want = append(want, n)
			}
		}
		size, look := 1+random.IntN(7), 1+random.IntN(9)
		pages, err := httpapi.Merged(t.Context(), lists, size, look, match)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, page := range pages {
			if len(page) > size {
				t.Fatalf("a page of %d, want at most %d", len(page), size)
			}
			got = append(got, page...)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("lists %v, pages of %d: got %v, want %v", lists, size, got, want)
		}
	}
}

// A panic while a cell's list is read is that request's error; the process goes on.
func TestAMergedListRecovers(t *testing.T) {
	t.Parallel()
	if _, err := httpapi.Merged(t.Context(), [][]int{{1}, {2}}, 5, 5, func(int) bool { panic("broken") }); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("the error is %v", err)
	}
}
