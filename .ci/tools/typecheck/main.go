// Typecheck reports what does not compile on another system (GOOS, GOARCH), from the source alone:
// nothing is compiled, which takes minutes for a system that nothing here runs on.
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	const all = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
		packages.NeedDeps | packages.NeedModule | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo
	found, err := packages.Load(&packages.Config{Mode: all}, os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if len(found) == 0 || packages.PrintErrors(found) > 0 {
		os.Exit(1)
	}
	fmt.Printf("%s: %d packages and all that they import\n", os.Getenv("GOOS"), len(found))
}
