-- Reads runs of the history, the newest first.
--
-- KEYS[1] recent STREAM, see record.lua
-- ARGV[1] ID of the entry to begin with, or '+'
-- ARGV[2] of that entry, lines below this number
-- ARGV[3] ID of the entry to end with, or '-'
-- ARGV[4] of that entry, lines above this number
-- ARGV[5] maximum number of runs
-- then    texts that a run must contain
--
-- Answer: {runs, next ID, next line}; runs as ID, line, text for each; the ID is '' when there are no further runs.
-- A call reads a bounded part of the stream, so that it never takes more than some milliseconds.

local MOST_BYTES, MOST_ENTRIES = 131072, 256
local last, below = ARGV[3], tonumber(ARGV[2])
local above, limit = tonumber(ARGV[4]), tonumber(ARGV[5])
local found, bytes, entries, from = {}, 0, 0, ARGV[1]
local page_size = #ARGV < 6 and math.min(limit, 16) or 16

local function has_all(text)
  for at = 6, #ARGV do
    if not string.find(text, ARGV[at], 1, true) then return false end
  end
  return true
end

while true do
  local page = redis.call('XREVRANGE', KEYS[1], from, last, 'COUNT', page_size)
  for _, entry in ipairs(page) do
    local id, text = entry[1], entry[2][2]
    if has_all(text) then
      local lines = {}
      for line in string.gmatch(text, '[^\n]+') do lines[#lines + 1] = line end
      local highest = id == ARGV[1] and below - 1 or #lines
      local lowest = id == last and above + 1 or 1
      for at = math.min(highest, #lines), lowest, -1 do
        if has_all(lines[at]) then
          found[#found + 1] = id
          found[#found + 1] = at
          found[#found + 1] = lines[at]
          if #found >= 3 * limit then return { found, id, at } end
        end
      end
    end
    bytes, entries = bytes + #text, entries + 1
    if bytes >= MOST_BYTES or entries >= MOST_ENTRIES then return { found, id, 1 } end
    from = '(' .. id
  end
  if #page < page_size then return { found, '', 0 } end
end
