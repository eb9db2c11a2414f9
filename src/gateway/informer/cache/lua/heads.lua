-- Reads the first lines of the entries of some objects, and the line of one index: an entry may have many long lines.
--
-- KEYS[1] entries HASH
-- ARGV[1] bytes to look at; the first entry is read whatever its size
-- ARGV[2] the beginning of the line of the index; '': the answer has no such line
-- then    fields: keys of objects
--
-- Answer: {bytes that were looked at, for each of the first fields its lines, false where there is none}. The line of the
-- index is cut after 256 bytes.

local most, wanted, bytes = tonumber(ARGV[1]), ARGV[2], 0
local heads = {}
for at = 3, #ARGV do
  local size = redis.call('HSTRLEN', KEYS[1], ARGV[at])
  if at > 3 and bytes + size > most then break end
  bytes = bytes + size
  local entry = redis.call('HGET', KEYS[1], ARGV[at])
  local line = 0
  for _ = 1, 3 do line = entry and line and entry:find('\n', line + 1, true) end
  if line then
    local from = wanted ~= '' and entry:find('\n' .. wanted, line, true)
    local to = from and entry:find('\n', from + 1, true)
    entry = entry:sub(1, line - 1) .. (from and entry:sub(from, math.min(from + 256, (to or #entry + 1) - 1)) or '')
  end
  heads[#heads + 1] = entry
end
return { bytes, unpack(heads) }
