// Package coreclient calls core, in the cells that have what is asked for. Package cellclient makes the call in one cell.
//
//	Call
//	  │ there is one cell, or the operation is the directory's ──▶ the home cell
//	  │ a platform's worker (platform.go) ──▶ several cells; a lease token names its cell
//	  │ what several cells have (merge.go) ──▶ these cells, one answer
//	  │ any other ──▶ the cell of the principal's tenant, as its key says (LookUpKey)
//	  ▼
//	cellclient.Call, within the patience for a cell where others are asked as well (several.go)
package coreclient
