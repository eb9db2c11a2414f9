-- Returns the kinds in the index of related objects, in their order, each once: `most` of them at most.
local function distinct_kinds(index, most)
  local found, from = {}, '-'
  while #found < most do
    local member = redis.call('ZRANGEBYLEX', index, from, '+', 'LIMIT', 0, 1)[1]
    if not member then break end
    local kind = string.match(member, '^[^\n]*')
    found[#found + 1] = kind
    from = '[' .. kind .. '\11'
  end
  return found
end
