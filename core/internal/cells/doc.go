// Package cells is which cells an installation has, and in which one a new tenant is placed.
package cells
