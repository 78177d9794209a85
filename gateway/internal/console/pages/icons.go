package pages

import "html/template"

// shapes are drawn in a square of 16: a state has a shape of its own, besides its colour and its word.
var shapes = map[string]template.HTML{
	// states of jobs and workflows
	"blocked":     `<path d="M3 8h10M8 3v10" transform="rotate(45 8 8)"/><circle cx="8" cy="8" r="6"/>`,
	"scheduled":   `<circle cx="8" cy="8" r="6"/><path d="M8 4.5V8l2.5 1.5"/>`,
	"waiting":     `<path d="M4.5 2.5h7l-7 11h7z"/>`,
	"queued":      `<circle cx="8" cy="8" r="5.5" stroke-dasharray="2.6 2"/>`,
	"running":     `<path d="M5 3.2v9.6L13 8z" fill="currentColor"/>`,
	"completed":   `<path d="m3 8.5 3.2 3.2L13 4.8"/>`,
	"dead_letter": `<path d="m4 4 8 8m0-8-8 8"/>`,
	"cancelled":   `<circle cx="8" cy="8" r="6"/><path d="m4 12 8-8"/>`,
	"failed":      `<path d="m4 4 8 8m0-8-8 8"/>`,
	"skipped":     `<path d="M3 8h3m4 0h3"/>`,
	"unknown":     `<circle cx="8" cy="8" r="1.5"/>`,
	"stopped":     `<rect x="4" y="4" width="8" height="8"/>`,
	// workers, queues, breakers
	"active": `<circle cx="8" cy="8" r="4.5" fill="currentColor"/>`,
	"stale":  `<circle cx="8" cy="8" r="5"/><path d="M8 5v3.5M8 11v.1"/>`,
	"dead":   `<path d="m4 4 8 8m0-8-8 8"/>`,
	"paused": `<path d="M5.5 3.5v9m5-9v9"/>`,
	"open":   `<path d="M8 2 15 14H1zM8 6.5v3.5m0 2v.1"/>`,
	// pages
	"overview":  `<path d="M2 13V9m4 4V3m4 10V7m4 6V5"/>`,
	"queues":    `<path d="M2 4h12M2 8h12M2 12h7"/>`,
	"jobs":      `<rect x="2.5" y="2.5" width="11" height="11" rx="2"/><path d="m5.5 8 2 2 3.5-4"/>`,
	"letters":   `<path d="M2 4h12v8.5H2zm0 .5 6 4.5 6-4.5"/>`,
	"workflows": `<circle cx="3.5" cy="8" r="1.8"/><circle cx="12.5" cy="3.8" r="1.8"/><circle cx="12.5" cy="12.2" r="1.8"/><path d="m5.2 7.2 5.5-2.6M5.2 8.8l5.5 2.6"/>`,
	"schedules": `<rect x="2" y="3" width="12" height="11" rx="1.5"/><path d="M2 6.5h12M5.5 1.5V4m5-2.5V4"/>`,
	"types":     `<path d="M6 2.5H4.5v4L3 8l1.5 1.5v4H6m4-11h1.5v4L13 8l-1.5 1.5v4H10"/>`,
	"workers":   `<rect x="3" y="5" width="10" height="8" rx="1.5"/><path d="M8 5V2.5M6 8.5v1m4-1v1M1.5 8v3m13-3v3"/>`,
	"limits":    `<path d="M2 12a6 6 0 1 1 12 0M8 12l3-4.5"/>`,
	"keys":      `<circle cx="5" cy="11" r="3"/><path d="m7.2 8.8 6.3-6.3M10.5 5.5l2 2M12.5 3.5l1.5 1.5"/>`,
	"audit":     `<path d="M4 2h8v12H4zM6 5h4M6 8h4M6 11h2"/>`,
	"webhooks":  `<path d="M8 8V3.5a2 2 0 1 1 2 3.4M8 8l-3.5 3a2 2 0 1 1-1-3.5M8 8l4 3.2a2 2 0 1 1-3 1.6H5.5"/>`,
	"budgets":   `<ellipse cx="8" cy="4.2" rx="5.5" ry="2.2"/><path d="M2.5 4.2v3.9c0 2.9 11 2.9 11 0V4.2M2.5 8v3.9c0 2.9 11 2.9 11 0V8"/>`,
	"tenants":   `<circle cx="6" cy="5.5" r="2.5"/><path d="M1.5 13.5c0-5 9-5 9 0M11 3.4a2.4 2.4 0 0 1 0 4.4m1.2 1.6c1.6.6 2.3 2 2.3 4.1"/>`,
	"plans":     `<path d="m8 2 6 3-6 3-6-3zm-6 6 6 3 6-3M2 11l6 3 6-3"/>`,
	"search":    `<circle cx="7" cy="7" r="4.5"/><path d="m10.5 10.5 3.5 3.5"/>`,
	"person":    `<circle cx="8" cy="5.5" r="3"/><path d="M2.5 14c0-6 11-6 11 0"/>`,
	"next":      `<path d="m6 3 5 5-5 5"/>`,
}

// icon draws a shape. It says nothing: a word stands beside it.
func icon(name string) template.HTML {
	return `<svg class="icon" viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">` + shapes[name] + `</svg>`
}
